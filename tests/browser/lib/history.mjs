// A day of measurements, so that the charts of a new server have something to show in the pictures of the documents.
import { execFileSync } from 'node:child_process'
import path from 'node:path'

/** A step of the history, in microseconds. */
const STEP = 300e6
const STEPS = 288

const INSERT = `
import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=30)
db.executemany("INSERT OR IGNORE INTO metric_history (metric, at, label, count, total, max) VALUES (?, ?, ?, ?, ?, ?)", json.load(sys.stdin))
db.commit()
`

/** The same hills and noise each time, around 1. */
const wave = (step) => 1 + 0.55 * Math.sin((step / STEPS) * 2 * Math.PI - 2) + 0.12 * Math.sin(step * 12.9898) + 0.08 * Math.sin(step * 4.1414)

/** Fills the day before the current step. `peaks`: for each metric and label, the mean number of measurements in a step. */
export function fillDay(server, peaks) {
  const last = Math.floor(Date.now() * 1e3 / STEP)
  const rows = peaks.flatMap(({ metric, label = '', mean, millis = 0 }) =>
    Array.from({ length: STEPS }, (_, step) => {
      const count = Math.round(mean * wave(step + label.length))
      return [metric, (last - STEPS + step) * STEP, label, count, count * millis, millis * 4]
    }))
  execFileSync('python3', ['-c', INSERT, path.join(server.folder, 'data/belvedere.db')], { input: JSON.stringify(rows), stdio: ['pipe', 'inherit', 'inherit'] })
}
