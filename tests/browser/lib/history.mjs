// A day of measurements, so that the charts of a new server have something to show in the pictures of the documents.
import { execFileSync } from 'node:child_process'
import path from 'node:path'

/** The steps that are stored of each length: the table, the length in microseconds, and how many a story fills. */
const LENGTHS = {
  minutes: { table: 'metric_history_minutes', step: 60e6, steps: 180 },
  day: { table: 'metric_history', step: 300e6, steps: 288 },
}

const INSERT = `
import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=30)
db.executemany(f"INSERT OR IGNORE INTO {sys.argv[2]} (metric, at, label, count, total, max) VALUES (?, ?, ?, ?, ?, ?)", json.load(sys.stdin))
db.commit()
`

/** The same hills and noise each time, around 1. */
const wave = (step, steps) => 1 + 0.55 * Math.sin((step / steps) * 2 * Math.PI - 2) + 0.12 * Math.sin(step * 12.9898) + 0.08 * Math.sin(step * 4.1414)

function fill(server, { table, step: length, steps }, peaks) {
  const last = Math.floor(Date.now() * 1e3 / length)
  const rows = peaks.flatMap(({ metric, label = '', mean, millis = 0 }) =>
    Array.from({ length: steps }, (_, step) => {
      const count = Math.round(mean * wave(step + label.length, steps))
      return [metric, (last - steps + step) * length, label, count, count * millis, millis * 4]
    }))
  const database = path.join(server.folder, 'data/belvedere.db')
  execFileSync('python3', ['-c', INSERT, database, table], { input: JSON.stringify(rows), stdio: ['pipe', 'inherit', 'inherit'] })
}

/** Fills the day before the current step. `peaks`: for each metric and label, the mean number of measurements in a step. */
export function fillDay(server, peaks) {
  fill(server, LENGTHS.day, peaks)
}

/** Fills the minutes of the last three hours. */
export function fillMinutes(server, peaks) {
  fill(server, LENGTHS.minutes, peaks)
}
