-- parallel: runs functions whose calls of the host are made at the same time.
local _, internal = ...
local resume, perform, rethrow = internal.resume, internal.perform, internal.rethrow
local raise = internal.raise
local create = coroutine.create
local pack, unpack, type = table.pack, table.unpack, type

-- Functions that have begun and not ended: as many as calls are made at the same time.
local MAX_TASKS = 8

-- Calls functions without arguments and returns the first value of each, in their order. When some raise errors, the first of these
-- functions in their order has its error raised, after all have ended.
function parallel(...)
  local functions = pack(...)
  local count = functions.n
  for i = 1, count do
    if type(functions[i]) ~= "function" then
      raise("parallel: argument " .. i .. ": function expected, got " .. type(functions[i]))
    end
  end
  local values, tasks, numbers = {}, {}, {}
  local begun, live = 0, 0
  local failed, failure, line
  while true do
    local waiting, i = 0, 1
    -- A function takes the place of one that has ended, and its calls are made with those of the others.
    while true do
      if i > live then
        if begun == count or waiting == MAX_TASKS then
          break
        end
        begun, live = begun + 1, i
        tasks[i], numbers[i] = create(functions[begun]), begun
      end
      local task, number = tasks[i], numbers[i]
      tasks[i] = nil
      local ended, value, at = resume(task)
      if ended then
        values[number] = value
      elseif ended == nil then
        waiting = waiting + 1
        tasks[waiting], numbers[waiting] = task, number
      elseif not failed or number < failed then
        failed, failure, line = number, value, at
      end
      i = i + 1
    end
    if waiting == 0 then
      break
    end
    live = waiting
    perform()
  end
  if failed then
    rethrow(failure, line)
  end
  return unpack(values, 1, count)
end
