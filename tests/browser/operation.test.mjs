// The stories about operating an instance: people, clients, plugins, sessions. Each has a server of its own.
//   node --test tests/browser/operation.test.mjs        (dev/test.sh does; --test-name-pattern picks a story)
import './stories/clients.mjs'
import './stories/statistics.mjs'
import './stories/conflicts.mjs'
import './stories/schema.mjs'
import './stories/identity.mjs'
import './stories/linked-repos.mjs'
import './stories/plugins.mjs'
import './stories/spaces.mjs'
import './stories/users.mjs'
import './stories/people.mjs'
import './stories/sessions.mjs'
import './stories/audit.mjs'
