// Starts an example and its page, until it is interrupted: node examples/run.mjs NAME (examples/run.sh builds first).
import { App } from './lib/app.mjs'

const [name, port = '3100'] = process.argv.slice(2)
const app = await App.start(name, { page: Number(port) })
console.log(`The page:   ${app.pageUrl}
The server: ${app.url}/dashboard/
Stop both with Ctrl-C; their data is deleted then.`)
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, async () => {
    await app.stop()
    process.exit(0)
  })
}
