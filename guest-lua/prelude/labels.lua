-- labels.*: labels of this server on records and accounts.
local host, internal = ...
local issue = host.atproto.issue_label
local text, null = internal.text, internal.null

local APPLY = { cid = true, exp = true }
local NEGATE = { cid = true }

local function option(options, name, known, what)
  if options == nil or options == null then
    return ""
  end
  local value = internal.options(options, known, what)[name]
  if value == nil or value == null then
    return ""
  end
  return text(value, what .. ": " .. name)
end

labels = {}

-- Applies a label of this server; options may be { cid =, exp = }. Returns whether that changed anything.
function labels.apply(uri, val, options)
  local what = "labels.apply"
  local cid, exp = option(options, "cid", APPLY, what), option(options, "exp", APPLY, what)
  return issue(text(uri, "labels.apply: uri"), text(val, "labels.apply: val"), cid, exp, false)
end

-- Negates a label of this server; options may be { cid = }. Returns whether that changed anything.
function labels.negate(uri, val, options)
  local cid = option(options, "cid", NEGATE, "labels.negate")
  return issue(text(uri, "labels.negate: uri"), text(val, "labels.negate: val"), cid, "", true)
end
