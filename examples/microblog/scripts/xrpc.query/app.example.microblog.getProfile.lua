-- A profile with its counts, and how the caller and the account follow each other.
local FOLLOWS = { follows = { collection = "app.bsky.graph.follow", path = "subject" } }

function handle()
  local did = params.actor
  if not did:find("^did:") then
    did = atproto.resolve_handle(did)
  end
  local found = did and db.profiles({ did })[did]
  if not found then
    error({ status = 400, error = "NotFound", message = "no such account" })
  end
  local profile = found.record or {}
  local answer = {
    did = did, handle = found.handle, displayName = profile.displayName, description = profile.description,
    followers = db.link_counts({ did }, FOLLOWS)[did].follows,
    follows = db.count("app.bsky.graph.follow", did),
    posts = db.count("app.bsky.feed.post", did),
  }
  if caller_did and caller_did ~= did then
    answer.viewer = {
      following = db.links_by(caller_did, { did }, FOLLOWS)[did].follows,
      followedBy = db.links_by(did, { caller_did }, FOLLOWS)[caller_did].follows,
    }
  end
  return answer
end
