-- json.encode, json.decode, json.null, toarray.
local _, internal = ...
local array, raise, type = internal.array, internal.raise, type

json = {
  encode = internal.encode,
  decode = internal.decode,
  -- JSON's null. Not nil, so that a field can contain it; equal only to itself.
  null = internal.null,
}

-- Marks t as an array and returns it. When empty it is encoded as [], where a plain table would be {}. A table with
-- named fields or a metatable of its own stays as it is: the result is a new array with its sequence part.
function toarray(t)
  if type(t) ~= "table" then
    raise("toarray: table expected, got " .. type(t))
  end
  return array(t)
end
