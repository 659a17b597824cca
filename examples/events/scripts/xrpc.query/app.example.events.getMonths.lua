-- How many events each month has, the first month first.
function handle()
  local groups = db.group({
    collection = "community.lexicon.calendar.event",
    by = { { field = "startsAt", bucket = "month" } },
    limit = 1000,
  })
  table.sort(groups, function(a, b) return (a.startsAt or "") < (b.startsAt or "") end)
  local months = toarray({})
  for _, group in ipairs(groups) do
    if group.startsAt then
      months[#months + 1] = { month = group.startsAt, events = group.count }
    end
  end
  return { months = months }
end
