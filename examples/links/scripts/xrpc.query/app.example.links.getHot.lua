-- Ranks the newest links by their votes and their age.
local POST, VOTE, COMMENT = "fyi.unravel.frontpage.post", "fyi.unravel.frontpage.vote", "fyi.unravel.frontpage.comment"
local KINDS = { votes = { collection = VOTE, path = "subject.uri" }, comments = { collection = COMMENT, path = "post.uri" } }
-- A link loses against one with half its votes after some seven hours.
local GRAVITY = 1.8

local function score(votes, hours)
  return votes / (hours + 2) ^ GRAVITY
end

local function micros(datetime)
  return TID.toUnixMicroseconds(TID.fromISO8601(datetime))
end

-- The author's date counts, unless it is after the time at which the link was indexed, or before 1970, which no TID has.
local function hours_since(post)
  local since = micros(post._indexed_at)
  local ok, created = pcall(micros, post.createdAt)
  if ok then
    since = math.min(since, created)
  end
  return math.max(0, micros(now()) - since) / 3.6e9
end

function handle()
  local posts = db.query({ collection = POST, limit = 100, valid = true }).records
  local uris, dids = toarray({}), toarray({})
  for i, post in ipairs(posts) do
    uris[i], dids[i] = post.uri, post._did
  end
  local counts, profiles = db.link_counts(uris, KINDS), db.profiles(dids)
  local voted = caller_did and db.links_by(caller_did, uris, { vote = KINDS.votes }) or {}
  local links = toarray({})
  for _, post in ipairs(posts) do
    local author, count = profiles[post._did], counts[post.uri]
    if author then
      links[#links + 1] = {
        uri = post.uri, title = post.title, url = post.url, createdAt = post.createdAt,
        author = { did = post._did, handle = author.handle, displayName = author.record and author.record.displayName },
        votes = count.votes, comments = count.comments, voted = voted[post.uri] and voted[post.uri].vote,
        score = score(count.votes, hours_since(post)),
      }
    end
  end
  table.sort(links, function(a, b) return a.score > b.score end)
  for i = #links, 1, -1 do
    links[i].score = nil
    if i > params.limit then
      links[i] = nil
    end
  end
  return { links = links }
end
