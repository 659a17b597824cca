const INVISIBLE = /[\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g

/** What was typed or pasted, without the characters that nobody sees: pages put marks of direction around handles. */
export const typed = (text: string): string => text.replace(INVISIBLE, '').trim()
