import { mount } from 'svelte'
import App from './App.svelte'
import './app.css'

// The shell is loaded while the server is asked who is logged in.
const shell = import('./components/shell/Shell.svelte')
shell.catch(() => undefined)
mount(App, { target: document.body, props: { shell } })
