import { SPANS } from '../statistics/metrics'

/** The span that the URL names, a day if it names none. */
export const spanOf = (key: string | undefined) => SPANS.find((span) => span.key === key) ?? SPANS[1]

export const hoursOf = (key: string | undefined): number => spanOf(key).seconds / 3_600
