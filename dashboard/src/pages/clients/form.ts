import type { ApiClient } from '../../api/models/access'
import { positive, scopesOf } from '../../lib/clients'
import { PageError } from '../../lib/message'
import { clients as t } from '../../texts'

/** What is entered about a client. */
export interface ClientForm {
  name: string
  client_uri: string
  redirect_uris: string[]
  scopes: string
  allowed_origins: string[]
  capacity: string
  refill: string
}

export const emptyForm = (): ClientForm => ({
  name: '',
  client_uri: '',
  redirect_uris: [],
  scopes: 'atproto',
  allowed_origins: [],
  capacity: '',
  refill: '',
})

export const formOf = (client: ApiClient): ClientForm => ({
  name: client.name,
  client_uri: client.client_uri,
  redirect_uris: client.redirect_uris,
  scopes: client.scopes,
  allowed_origins: client.allowed_origins,
  capacity: String(client.rate_limit_capacity ?? ''),
  refill: String(client.rate_limit_refill_rate ?? ''),
})

/** The fields as the server takes them. */
export function fieldsOf(form: ClientForm) {
  const number = (text: string, what: string) => {
    try {
      return positive(text)
    } catch {
      throw new PageError(t.noNumber(what))
    }
  }
  return {
    name: form.name.trim(),
    client_uri: form.client_uri.trim(),
    redirect_uris: form.redirect_uris,
    scopes: scopesOf(form.scopes),
    allowed_origins: form.allowed_origins,
    rate_limit_capacity: number(form.capacity, t.capacity),
    rate_limit_refill_rate: number(form.refill, t.refill),
  }
}
