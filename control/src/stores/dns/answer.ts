// @pure

/**
 * What is known of a name. `absent` is what a server said: there is no such name, or it has nothing of that kind.
 * `unknown` is evidence of nothing: nobody answered in time, or a server said that it could not tell.
 */
export type Answer<T> = { kind: "found"; values: T[] } | { kind: "absent" } | { kind: "unknown"; reason: string };

/** No answer, and why. */
export const unknown = (reason: string): { kind: "unknown"; reason: string } => ({ kind: "unknown", reason });

/** What a name has, or that it has nothing. */
export const foundOf = <T>(values: T[]): Answer<T> =>
  values.length === 0 ? { kind: "absent" } : { kind: "found", values };

const reasonsOf = (answers: readonly Answer<unknown>[]): string => {
  const reasons = answers.flatMap((answer) => (answer.kind === "unknown" ? [answer.reason] : []));
  return [...new Set(reasons)].join("; ");
};

/** The answer of the first server that knows; unknown with everybody's reasons when none does. */
export const firstKnown = <T>(answers: readonly Answer<T>[]): Answer<T> =>
  answers.find(({ kind }) => kind !== "unknown") ?? unknown(reasonsOf(answers));

const sameness = (answer: Answer<unknown>): string =>
  answer.kind === "found"
    ? JSON.stringify(answer.values.map((value) => JSON.stringify(value)).toSorted())
    : answer.kind;

/**
 * What at least two servers say alike, in whatever order, and more of them than say anything else. Of one server its word is
 * all there is. Unknown when too few know, or when they contradict one another.
 */
export function agreedBy<T>(answers: readonly Answer<T>[]): Answer<T> {
  const camps = Map.groupBy(
    answers.filter(({ kind }) => kind !== "unknown"),
    sameness,
  );
  const [largest = [], next = []] = [...camps.values()].toSorted((a, b) => b.length - a.length);
  const [answer] = largest;
  if (answer !== undefined && largest.length >= Math.min(2, answers.length) && largest.length > next.length)
    return answer;
  return unknown(camps.size > 1 ? "the DNS servers contradict one another" : reasonsOf(answers));
}
