-- The posts that contain a text, the best match first.
function handle()
  local found = db.search({ collection = "app.bsky.feed.post", field = "text", query = params.q, limit = params.limit }).records
  local dids = toarray({})
  for i, post in ipairs(found) do
    dids[i] = post._did
  end
  local profiles = db.profiles(dids)
  local feed = toarray({})
  for _, post in ipairs(found) do
    local author = profiles[post._did]
    if author then
      local name = author.record and author.record.displayName
      feed[#feed + 1] = { uri = post.uri, record = post, author = { did = post._did, handle = author.handle, displayName = name } }
    end
  end
  return { feed = feed }
end
