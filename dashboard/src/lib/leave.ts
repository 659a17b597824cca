import { unsaved as t } from '../texts'
import { confirm } from './confirm.svelte'

/** Asks before unsaved input is left. */
export function askToLeave(leave: () => void): void {
  const isLost = document.querySelector('[data-unsaved]:not([data-unsaved="kept"])') !== null
  confirm({ title: t.title, text: isLost ? t.lost : t.kept, action: t.leave, run: async () => leave() })
}
