-- The latest reactions to the caller's newest posts, of a view, and the latest followers: merged, newest first.
local FOLLOW = "app.bsky.graph.follow"

function handle()
  if not caller_did then
    error({ status = 401, error = "AuthRequired", message = "log in to see your notifications" })
  end
  local found = toarray({})
  local function add(reason, reaction, subject)
    if reaction.author.did ~= caller_did then
      found[#found + 1] = { uri = reaction.uri, author = reaction.author, indexedAt = reaction.indexedAt, reason = reason, subject = subject }
    end
  end

  for _, post in ipairs(view.page("app.example.microblog.getReactions", {}).posts) do
    for _, like in ipairs(post.likes) do
      add("like", like, post.uri)
    end
    for _, reply in ipairs(post.replies) do
      add("reply", reply, post.uri)
    end
  end

  local follows = db.backlinks({ collection = FOLLOW, target = caller_did, path = "subject", limit = params.limit }).records
  local dids = toarray({})
  for i, follow in ipairs(follows) do
    dids[i] = follow._did
  end
  local profiles = db.profiles(dids)
  for _, follow in ipairs(follows) do
    local profile = profiles[follow._did]
    if profile then
      local name = profile.record and profile.record.displayName
      local author = { did = follow._did, handle = profile.handle, displayName = name }
      add("follow", { uri = follow.uri, author = author, indexedAt = follow._indexed_at })
    end
  end

  table.sort(found, function(a, b) return a.indexedAt > b.indexedAt end)
  for i = #found, params.limit + 1, -1 do
    found[i] = nil
  end
  return { notifications = found }
end
