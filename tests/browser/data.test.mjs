// The stories about an app's data: lexicons, records, scripts and what is decided about them. Each has a server of its own.
//   node --test tests/browser/data.test.mjs        (dev/test.sh does; --test-name-pattern picks a story)
import './stories/first-run.mjs'
import './stories/backfill.mjs'
import './stories/scripts.mjs'
import './stories/rollout.mjs'
import './stories/replay.mjs'
import './stories/libraries.mjs'
import './stories/live.mjs'
import './stories/dead-letters.mjs'
import './stories/records.mjs'
import './stories/moderation.mjs'
