// The stories about the dashboard as a whole: every page's looks, its editors and forms, its security, and how quickly things are found. Each has a server of its own.
//   node --test tests/browser/pages.test.mjs        (dev/test.sh does; --test-name-pattern picks a story)
import './stories/run-it.mjs'
import './stories/typing.mjs'
import './stories/dialogs.mjs'
import './stories/security.mjs'
import './stories/long-names.mjs'
import './stories/questions.mjs'
import './stories/pages.mjs'
import './stories/examples.mjs'
