-- jobs.create, and the functions of the table job in a job's run.
local host, internal = ...
local create, progress, should_stop, wait =
  host.jobs.create, host.jobs.progress, host.jobs.should_stop, host.jobs.wait
local raise, null = internal.raise, internal.null
local tonumber, type = tonumber, type

jobs = {}

-- Queues a job of a type; input is any value, options may be { auth = true }. Returns the job's id.
function jobs.create(kind, input, options)
  if type(kind) ~= "string" then
    raise("jobs.create: type: string expected, got " .. type(kind))
  end
  if options ~= nil and options ~= null and type(options) ~= "table" then
    raise("jobs.create: options: table expected, got " .. type(options))
  end
  if input == nil then
    input = {}
  end
  return create(kind, input, options ~= nil and options ~= null and options.auth == true)
end

internal.on_start(function(context)
  if context.kind ~= "job" then
    return
  end
  -- Replaces the job's progress.
  function job.progress(value)
    if type(value) ~= "table" then
      raise("job.progress: table expected, got " .. type(value))
    end
    progress(value)
  end

  -- Whether a pause or a cancellation of the job was requested.
  function job.should_stop()
    return should_stop()
  end

  -- Waits for the given seconds, at most an hour, or until a stop is requested.
  function job.wait(seconds)
    local number = tonumber(seconds)
    if not number or number ~= number then
      raise("job.wait: number expected")
    end
    wait(number)
  end
  internal.entries(job)
end)
