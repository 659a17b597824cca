-- moderation.*: hides and takes down records and accounts on this server.
local host, internal = ...
local moderate, lift, status = host.moderation.moderate, host.moderation.lift, host.moderation.status
local text, null = internal.text, internal.null

local OPTIONS = { expires_at = true }

local function decide(action, subject, reason, options)
  local what = "moderation." .. action
  local expires_at = ""
  if options ~= nil and options ~= null then
    local given = internal.options(options, OPTIONS, what).expires_at
    if given ~= nil and given ~= null then
      expires_at = text(given, what .. ": expires_at")
    end
  end
  return moderate(text(subject, what .. ": subject"), action, text(reason, what .. ": reason"), expires_at)
end

moderation = {}

-- Leaves a record or an account out of lists, joins, counts and searches; options may be { expires_at = }. Returns whether that
-- changed anything.
function moderation.hide(subject, reason, options)
  return decide("hide", subject, reason, options)
end

-- Leaves a record or an account out of all answers; options may be { expires_at = }. Returns whether that changed anything.
function moderation.takedown(subject, reason, options)
  return decide("takedown", subject, reason, options)
end

-- Lifts the decision in force. Returns whether there was one.
function moderation.lift(subject, reason)
  if reason == nil or reason == null then
    reason = ""
  end
  return lift(text(subject, "moderation.lift: subject"), text(reason, "moderation.lift: reason"))
end

-- The decision in force, or nil.
function moderation.status(subject)
  return status(text(subject, "moderation.status: subject"))
end
