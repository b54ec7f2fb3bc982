import { Lexer } from 'yaml';
import { DEFINITION_LIMITS } from './effect-definition.ts';

/** What a document has too much of, and where. */
export interface Excess {
  offset: number;
  message: string;
}

/** Of the lexer's tokens those that stand for no character of the text. */
const BEFORE_DOCUMENT = '\u0002';
const FLOW_BROKE_OFF = '\u0018';
const BEFORE_SCALAR = '\u001f';
const MARKS = new Set([BEFORE_DOCUMENT, FLOW_BROKE_OFF, BEFORE_SCALAR]);

/**
 * Looks, before anything is parsed, whether that would take long: what is short and made of brackets or dashes alone
 * keeps the parser busy for a second, and with it everybody else. Null: it would not.
 */
export function findExcess(text: string): Excess | null {
  let tokens = 0;
  let offset = 0;
  const nesting = new Nesting();
  for (const token of new Lexer().lex(text)) {
    tokens += 1;
    if (tokens > DEFINITION_LIMITS.tokens) {
      const message = `expected at most ${DEFINITION_LIMITS.tokens} words, signs and gaps, got more`;
      return { offset: 0, message };
    }
    nesting.add(token);
    if (nesting.depth > DEFINITION_LIMITS.depth) {
      const message = `expected lists and mappings at most ${DEFINITION_LIMITS.depth} deep inside one another, got more`;
      return { offset, message };
    }
    if (!MARKS.has(token)) offset += token.length;
  }
  return null;
}

/**
 * How deep inside lists and mappings a text is, told by its brackets and by the columns where something begins. A list
 * that is not further in than its key counts as one with it.
 */
class Nesting {
  #brackets = 0;
  /** Of what is open at the current place, rising. */
  readonly #columns: number[] = [];
  #column = 0;
  /** Whether what comes next begins a line, or follows a dash or a question mark. */
  #isBeginning = true;
  #isScalar = false;

  get depth(): number {
    return this.#brackets + this.#columns.length;
  }

  add(token: string): void {
    if (token === BEFORE_SCALAR) this.#isScalar = true;
    if (MARKS.has(token)) return;
    if (this.#isScalar) {
      this.#isScalar = false;
      this.#begin();
      this.#isBeginning = token.endsWith('\n');
    } else if (/^\r?\n$/.test(token)) {
      this.#isBeginning = true;
    } else if (!/^[ \t#]/.test(token)) {
      if (token === '[' || token === '{') this.#brackets += 1;
      else if (token === ']' || token === '}') this.#brackets = Math.max(0, this.#brackets - 1);
      else this.#begin();
      this.#isBeginning = token === '-' || token === '?';
    }
    this.#column = token.endsWith('\n') ? 0 : this.#column + token.length;
  }

  #begin(): void {
    if (!this.#isBeginning || this.#brackets > 0) return;
    while ((this.#columns.at(-1) ?? -1) >= this.#column) this.#columns.pop();
    this.#columns.push(this.#column);
  }
}
