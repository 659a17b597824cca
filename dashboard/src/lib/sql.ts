/** The rows of a statement: values by column, without nulls. */
export type Row = Record<string, unknown>

/** Characters by which spreadsheets know a formula, with the wide forms that some of them read alike. */
const FORMULA = /^[=+\-@\t\r\n＝＋－＠]/

/** The text of a value: that of JSON for lists and objects, nothing for null. */
export function textOf(value: unknown): string {
  if (value === undefined || value === null) return ''
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** Rows as CSV (RFC 4180). A text that a spreadsheet would run gets an apostrophe before it: records are written by strangers. */
export function csvOf(columns: string[], rows: Row[]): string {
  const cell = (value: unknown) => {
    const text = textOf(value)
    const guarded = typeof value === 'string' && FORMULA.test(text) ? `'${text}` : text
    return /[",\r\n]/.test(guarded) ? `"${guarded.replaceAll('"', '""')}"` : guarded
  }
  const lines = [columns, ...rows.map((row) => columns.map((column) => row[column]))]
  return lines.map((line) => `${line.map(cell).join(',')}\r\n`).join('')
}

/** The columns of rows, each once: the server's, and those that it did not name. */
export function columnsOf(named: string[], rows: Row[]): string[] {
  return [...new Set([...named, ...rows.flatMap((row) => Object.keys(row))])]
}

/** Where the server found an error in a statement, if it says so. */
export function positionOf(message: string): { line: number; column: number } | null {
  const found = /Line: (\d+), Column: (\d+)/.exec(message)
  return found ? { line: Number(found[1]), column: Number(found[2]) } : null
}

/** The values of parameters, of a text that is a JSON array; null for one that is not. */
export function paramsOf(text: string): unknown[] | null {
  if (!text.trim()) return []
  try {
    const value: unknown = JSON.parse(text)
    return Array.isArray(value) ? value : null
  } catch {
    return null
  }
}
