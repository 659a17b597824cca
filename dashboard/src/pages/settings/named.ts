import { href } from '../../lib/route'
import { settings as t, settingTexts } from '../../texts'
import { sections } from './known'

/** Every setting, for the command palette. Not beside it: its texts would be in the first load. */
export const namedSettings = sections
  .flatMap(({ settings }) => settings)
  .map(({ key }) => ({
    title: settingTexts[key].label,
    kind: t.kind,
    to: href('/settings', { setting: key }),
    words: `${key} ${settingTexts[key].hint}`,
  }))
