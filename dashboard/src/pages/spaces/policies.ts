const TYPES = 'com.atproto.simplespace.defs'

/** A policy as the form of a space edits it. */
export interface PolicyForm {
  kind: 'publicPolicy' | 'memberListPolicy' | 'managingAppPolicy'
  app: string
}

/** Reads a policy of the protocol. */
export function policyForm(policy: unknown): PolicyForm {
  const { $type = '', managingApp = '' } = (policy ?? {}) as { $type?: string; managingApp?: string }
  const kind = $type.replace(`${TYPES}#`, '')
  return { kind: kind === 'publicPolicy' || kind === 'managingAppPolicy' ? kind : 'memberListPolicy', app: managingApp }
}

/** Writes a policy of the protocol. */
export function policyOf({ kind, app }: PolicyForm) {
  return { $type: `${TYPES}#${kind}`, ...(kind === 'managingAppPolicy' ? { managingApp: app.trim() } : {}) }
}

/** The applications of a list; null when every one is allowed. */
export function allowedApps(access: unknown): string[] | null {
  const { allowed } = (access ?? {}) as { allowed?: string[] }
  return allowed ?? null
}

/** The rule about applications, of a list or without one. */
export function appAccessOf(allowed: string[] | null) {
  return allowed ? { $type: `${TYPES}#allowList`, allowed } : { $type: `${TYPES}#open` }
}
