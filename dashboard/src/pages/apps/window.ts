import { DAY, WINDOWS, windowOf } from '../statistics/range'

/** The windows for which the calls of apps are kept. */
export const SHOWN = WINDOWS.filter(({ seconds }) => seconds <= 7 * 86_400)

const shownOf = (query: Record<string, string>) => SHOWN.find(({ key }) => key === windowOf(query).key) ?? DAY

export const keyOf = (query: Record<string, string>) => shownOf(query).key

export const hoursOf = (query: Record<string, string>): number => shownOf(query).seconds / 3_600
