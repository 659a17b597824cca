import { session } from './session.svelte'

/**
 * Whether the page has something that was entered and not saved. Its elements say so by `data-unsaved`; the value `kept` says
 * that a draft of it is kept.
 */
export function isUnsaved(): boolean {
  return session.state === 'in' && document.querySelector('[data-unsaved]') !== null
}

addEventListener('beforeunload', (event) => {
  if (isUnsaved()) event.preventDefault()
})
