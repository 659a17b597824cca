/** A question before something is destroyed. */
export interface Question {
  title: string
  /** What will be destroyed or stopped, in full sentences. */
  text: string
  /** The text of the button: a verb and what it acts on. */
  action: string
  /** What the user has to type when it can't be undone: the name of the thing. */
  name?: string
  /** Does it. While it runs the dialog stays, and shows the error if it fails. */
  run: () => Promise<void>
}

let question = $state.raw<Question | null>(null)

export const confirmation = {
  get question() {
    return question
  },
  ask(asked: Question) {
    question = asked
  },
  /** Closes a question; a later one stays. */
  close(asked: Question) {
    if (question === asked) question = null
  },
}

/** Asks before something is destroyed. */
export const confirm = confirmation.ask
