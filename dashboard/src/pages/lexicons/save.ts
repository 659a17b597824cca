import { api } from '../../api/client'
import type { LexiconSaved, LexiconUpload } from '../../api/models'

/** Stores lexicons, all or none. */
export async function save(lexicons: LexiconUpload[]): Promise<LexiconSaved[]> {
  const answer = await api.post('/admin/lexicons', { lexicons })
  return 'lexicons' in answer ? answer.lexicons : [answer]
}
