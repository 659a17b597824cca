import { expect, test } from 'vitest'
import { targetOf } from '../src/pages/lexicons/target'

test('a method is about the collection whose name it has', () => {
  const collections = ['com.example.note', 'com.example.entry', 'com.example.noteList', 'com.other.note']
  expect(targetOf('com.example.listNotes', collections)).toBe('com.example.note')
  expect(targetOf('com.example.getNoteList', collections)).toBe('com.example.noteList')
  expect(targetOf('com.example.listEntries', collections)).toBe('com.example.entry')
  expect(targetOf('com.example.search', collections)).toBeNull()
  expect(targetOf('com.third.listNotes', collections)).toBeNull()
})

test('a method is about the only collection beside it', () => {
  expect(targetOf('com.example.search', ['com.example.note', 'com.example.feed.post'])).toBe('com.example.note')
  expect(targetOf('com.example.search', [])).toBeNull()
})
