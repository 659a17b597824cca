// Debian's Chromium: its headless shell where it is installed, which takes half the time for a page.
import fs from 'node:fs'

export const CHROMIUM = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'].find((file) => fs.existsSync(file))
