// The stories of an operator, each in a browser against the real binary on the real network.
//   node --test tests/browser/browser.test.mjs        (dev/test.sh does; --test-name-pattern picks a story)
import './stories/first-run.mjs'
import './stories/backfill.mjs'
import './stories/scripts.mjs'
import './stories/dead-letters.mjs'
import './stories/clients.mjs'
import './stories/plugins.mjs'
import './stories/users.mjs'
import './stories/sessions.mjs'
import './stories/security.mjs'
import './stories/questions.mjs'
import './stories/pages.mjs'
