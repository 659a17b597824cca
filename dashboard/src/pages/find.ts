import { askEarly } from '../api/client'
import { match } from '../lib/route'
import { pages, type PageEntry } from '.'

/** The page at a place, and the parameters of the place. */
export interface Found {
  page: PageEntry
  params: Record<string, string>
}

/** The page at a place; null where there is none. */
export function pageAt(path: string): Found | null {
  for (const page of pages) {
    const params = match(page.path, path)
    if (params) return { page, params }
  }
  return null
}

/** Begins to load the page at a place, and what it reads. Whoever shows it says when it can't be loaded. */
export function preload(path: string): void {
  const page = pageAt(path)?.page
  page?.load().catch(() => undefined)
  if (page?.reads) askEarly(page.reads)
}
