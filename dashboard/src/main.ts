import { mount } from 'svelte'
import App from './App.svelte'
import './app.css'
import { parsePlace } from './lib/route'
import { views } from './views'

// The view and its page are loaded while the server is asked who is logged in: `build/finish.mjs` writes whom it expects.
const ignore = () => undefined
if ('session' in document.documentElement.dataset) {
  import('./pages/find').then(({ preload }) => preload(parsePlace(location.hash).path)).catch(ignore)
  views.in().catch(ignore)
} else {
  views.out().catch(ignore)
}
mount(App, { target: document.body })
