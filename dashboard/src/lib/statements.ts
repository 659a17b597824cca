/** A statement that was run in the SQL console. Its rows are not kept. */
export interface Statement {
  sql: string
  /** As it was typed. */
  params: string
  /** Milliseconds since 1970. */
  at: number
}

/** Statements that are kept for each user in this browser. */
const MAX_KEPT = 50

type Store = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>

const keyOf = (did: string) => `belvedere.sql:${did}`

/** The statements of a user, newest first. What can't be read is as good as none. */
export function statementsOf(did: string, store: Store): Statement[] {
  try {
    const found: unknown = JSON.parse(store.getItem(keyOf(did)) ?? '[]')
    return Array.isArray(found) ? found.filter(isStatement) : []
  } catch {
    return []
  }
}

/** Adds a statement as the newest one. One that was run before is moved. A full storage keeps none. */
export function addStatement(did: string, statement: Statement, store: Store): Statement[] {
  const { sql, params } = statement
  const others = statementsOf(did, store).filter((one) => one.sql !== sql || one.params !== params)
  const all = [statement, ...others].slice(0, MAX_KEPT)
  try {
    store.setItem(keyOf(did), JSON.stringify(all))
  } catch {
    store.removeItem(keyOf(did))
  }
  return all
}

export function clearStatements(did: string, store: Store): void {
  store.removeItem(keyOf(did))
}

function isStatement(value: unknown): value is Statement {
  const { sql, params, at } = (value ?? {}) as Statement
  return typeof sql === 'string' && typeof params === 'string' && typeof at === 'number'
}
