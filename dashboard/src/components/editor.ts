import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
  type CompletionContext,
} from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands'
import { json } from '@codemirror/lang-json'
import {
  bracketMatching,
  HighlightStyle,
  indentOnInput,
  StreamLanguage,
  syntaxHighlighting,
  syntaxTree,
} from '@codemirror/language'
import { lua } from '@codemirror/legacy-modes/mode/lua'
import { standardSQL } from '@codemirror/legacy-modes/mode/sql'
import { lintGutter, setDiagnostics } from '@codemirror/lint'
import { highlightSelectionMatches, searchKeymap } from '@codemirror/search'
import { Compartment, EditorState, RangeSet, StateEffect, StateField, type Extension } from '@codemirror/state'
import {
  drawSelection,
  EditorView,
  gutter,
  GutterMarker,
  highlightActiveLine,
  keymap,
  lineNumbers,
} from '@codemirror/view'
import { tags } from '@lezer/highlight'
import type { LineNote } from '../lib/profile'
import { completionsOf, type Suggestion } from './completion'
import { sqlCompletionsOf, statementAt, type ReadableTable } from './sql-completion'

export type Language = 'lua' | 'json' | 'sql'

export interface Diagnostic {
  /** Counted from 1. */
  line: number
  /** Counted from 1; without one the whole line is marked. */
  column?: number | null
  message: string
  severity?: 'error' | 'warning' | 'info'
}

export interface Options {
  value: string
  language: Language
  label: string
  isReadOnly: boolean
  onchange: (text: string) => void
  onsave: () => void
  onrun?: () => void
  suggestions: () => Suggestion[]
  tables: () => ReadableTable[]
}

export interface Editor {
  setValue(text: string): void
  setDiagnostics(found: Diagnostic[]): void
  setNotes(notes: LineNote[]): void
  setReadOnly(isReadOnly: boolean): void
  goToLine(line: number): void
  destroy(): void
}

class NoteMarker extends GutterMarker {
  constructor(readonly note: LineNote) {
    super()
  }

  override eq({ note }: NoteMarker) {
    return note.text === this.note.text && note.title === this.note.title && note.heat === this.note.heat
  }

  override toDOM() {
    const shown = document.createElement('span')
    shown.textContent = this.note.text
    shown.title = this.note.title
    shown.className = `heat${this.note.heat}`
    return shown
  }
}

const putNotes = StateEffect.define<LineNote[]>()

const notes = StateField.define<RangeSet<NoteMarker>>({
  create: () => RangeSet.empty,
  update(shown, { changes, effects, newDoc }) {
    let next = shown.map(changes)
    for (const effect of effects) {
      if (!effect.is(putNotes)) continue
      const known = effect.value.filter(({ line }) => line >= 1 && line <= newDoc.lines)
      next = RangeSet.of(
        known.map((note) => new NoteMarker(note).range(newDoc.line(note.line).from)),
        true,
      )
    }
    return next
  },
})

const noteGutter = gutter({ class: 'cm-notes', markers: (view) => view.state.field(notes) })

const languages: Record<Language, () => Extension> = {
  json,
  lua: () => StreamLanguage.define(lua),
  sql: () => StreamLanguage.define(standardSQL),
}

const colours = syntaxHighlighting(
  HighlightStyle.define([
    { tag: [tags.keyword, tags.bool, tags.null, tags.atom], color: 'var(--code-keyword)' },
    { tag: [tags.string, tags.special(tags.string)], color: 'var(--code-string)' },
    { tag: tags.number, color: 'var(--code-number)' },
    { tag: [tags.propertyName, tags.standard(tags.variableName)], color: 'var(--code-key)' },
    { tag: tags.comment, color: 'var(--muted)', fontStyle: 'italic' },
  ]),
)

const theme = EditorView.theme({
  '&': {
    height: 'var(--editor-height, auto)',
    maxHeight: 'var(--editor-height, 70vh)',
    color: 'var(--text)',
    backgroundColor: 'var(--bg)',
    fontSize: '13px',
  },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '1.55', overflow: 'auto' },
  '.cm-content': { padding: '8px 0', minHeight: '160px', caretColor: 'var(--text)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '.cm-gutters': { color: 'var(--muted)', backgroundColor: 'var(--surface)', borderRight: '1px solid var(--border)' },
  '.cm-notes span': { display: 'block', padding: '0 6px', fontSize: '11px', textAlign: 'right', borderRadius: '3px' },
  '.cm-notes .heat1': { backgroundColor: 'color-mix(in srgb, var(--warn) 12%, transparent)' },
  '.cm-notes .heat2': { backgroundColor: 'color-mix(in srgb, var(--warn) 28%, transparent)' },
  '.cm-notes .heat3': { color: 'var(--text)', backgroundColor: 'color-mix(in srgb, var(--warn) 50%, transparent)' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--surface)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': {
    background: 'var(--accent-soft)',
  },
  '.cm-tooltip, .cm-panels': {
    color: 'var(--text)',
    backgroundColor: 'var(--raised)',
    border: '1px solid var(--border)',
  },
  '.cm-tooltip-autocomplete ul li[aria-selected]': { color: 'var(--accent-text)', backgroundColor: 'var(--accent)' },
  '.cm-matchingBracket': { backgroundColor: 'var(--accent-soft) !important' },
  '.cm-panel button, .cm-panel input': { color: 'var(--text)', backgroundColor: 'var(--bg)' },
})

/**
 * Replaces a selection with what is typed. Browsers do so themselves, but keep the colours of what they replace in `style`
 * attributes, which the CSP forbids.
 */
const typeOverSelection = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { main, ranges } = view.state.selection
    const text = event.inputType === 'insertText' && !event.isComposing ? event.data : null
    if (!text || main.empty || ranges.length > 1 || view.state.readOnly) return false
    const insert = () =>
      view.state.update(view.state.replaceSelection(text), { userEvent: 'input.type', scrollIntoView: true })
    const isHandled = view.state
      .facet(EditorView.inputHandler)
      .some((handle) => handle(view, main.from, main.to, text, insert))
    if (!isHandled) view.dispatch(insert())
    event.preventDefault()
    return true
  },
})

/** Opens an editor in the shadow root of an element. */
export function createEditor(host: HTMLElement, options: Options): Editor {
  const root = host.shadowRoot ?? host.attachShadow({ mode: 'open' })
  const writable = new Compartment()
  const readOnly = (on: boolean) => [EditorState.readOnly.of(on), EditorView.editable.of(!on)]

  /** The names for a place of SQL, which may be in a string of Lua. */
  function completeSql(sql: string, at: number, context: CompletionContext) {
    const { word, found } = sqlCompletionsOf(sql, at, options.tables(), context.explicit)
    return found.length > 0 ? { from: context.pos - word.length, options: found, filter: false } : null
  }

  /** Without `filter` and `validFor` this is asked again with each letter. */
  function complete(context: CompletionContext) {
    const { language } = options
    if (language === 'json') return null
    const text = context.state.doc.toString()
    const node = syntaxTree(context.state).resolveInner(context.pos, -1).name
    const isText = /comment|string/.test(node)
    if (language === 'sql') return isText ? null : completeSql(text, context.pos, context)
    if (isText) {
      const statement = /string/.test(node) ? statementAt(text, context.pos) : null
      return statement && completeSql(statement.sql, statement.at, context)
    }
    const word = context.matchBefore(/[a-z_][\w.:]*$/i)
    const found = completionsOf(word?.text ?? '', text, options.suggestions(), context.explicit)
    return found.length > 0 ? { from: word?.from ?? context.pos, options: found, filter: false } : null
  }

  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: options.value,
      extensions: [
        lineNumbers(),
        notes,
        noteGutter,
        lintGutter(),
        history(),
        drawSelection(),
        highlightActiveLine(),
        highlightSelectionMatches(),
        indentOnInput(),
        bracketMatching(),
        closeBrackets(),
        typeOverSelection,
        // Enter is a new line until an entry was chosen with the arrows.
        autocompletion({ override: [complete], selectOnOpen: false }),
        colours,
        theme,
        languages[options.language](),
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ 'aria-label': options.label, tabindex: '0' }),
        writable.of(readOnly(options.isReadOnly)),
        keymap.of([
          { key: 'Mod-s', preventDefault: true, run: () => (options.onsave(), true) },
          // Before the default keys, which make a new line of it.
          { key: 'Mod-Enter', run: () => (options.onrun?.(), options.onrun !== undefined) },
          ...closeBracketsKeymap,
          ...completionKeymap,
          ...searchKeymap,
          ...historyKeymap,
          ...defaultKeymap,
          indentWithTab,
        ]),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) options.onchange(update.state.doc.toString())
        }),
      ],
    }),
  })

  function position({ line, column }: Diagnostic) {
    const at = view.state.doc.line(Math.min(Math.max(line, 1), view.state.doc.lines))
    const from = Math.min(at.from + Math.max((column ?? 1) - 1, 0), at.to)
    return { from, to: at.to }
  }

  return {
    setValue(text) {
      if (text !== view.state.doc.toString())
        view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } })
    },
    setDiagnostics(found) {
      const marks = found.map((one) => ({ ...position(one), severity: one.severity ?? 'error', message: one.message }))
      view.dispatch(setDiagnostics(view.state, marks))
    },
    setNotes(given) {
      view.dispatch({ effects: putNotes.of(given) })
    },
    setReadOnly(isReadOnly) {
      view.dispatch({ effects: writable.reconfigure(readOnly(isReadOnly)) })
    },
    goToLine(line) {
      const { from } = position({ line, message: '' })
      view.dispatch({ selection: { anchor: from }, effects: EditorView.scrollIntoView(from, { y: 'center' }) })
      view.focus()
    },
    destroy: () => view.destroy(),
  }
}
