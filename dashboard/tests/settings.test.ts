import { expect, test } from 'vitest'
import { checkLogo } from '../src/pages/settings/logo'
import { others, sections } from '../src/pages/settings/known'
import { settingTexts } from '../src/texts'

test('every known setting has texts, and each text a setting', () => {
  const keys = sections.flatMap((section) => section.settings.map(({ key }) => key))
  expect(keys.toSorted()).toEqual(Object.keys(settingTexts).toSorted())
})

test('settings of other software are listed apart', () => {
  const of = (key: string) => ({ key })
  expect(others([of('app_name'), of('feature.spaces_enabled'), of('xrpc_proxy_config'), of('my.tool')])).toEqual([
    of('my.tool'),
  ])
})

test('a logo is an image of a size that the server accepts', () => {
  expect(checkLogo({ type: 'image/png', size: 5 << 20 })).toBeNull()
  expect(checkLogo({ type: 'image/png', size: (5 << 20) + 1 })).toContain('5')
  expect(checkLogo({ type: 'text/html', size: 10 })).not.toBeNull()
  expect(checkLogo({ type: 'image/png', size: 0 })).not.toBeNull()
})
