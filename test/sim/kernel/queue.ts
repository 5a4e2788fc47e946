import type { Scope, Wait, Work } from "./kernel.ts";

/** One piece of work after another. */
export function createQueue(scope: Scope): <T>(work: () => Work<T>) => Wait<T> {
  const waiting: (() => void)[] = [];
  let isBusy = false;
  const next = () => {
    const first = waiting.shift();
    isBusy = first !== undefined;
    first?.();
  };
  return <T>(work: () => Work<T>): Wait<T> =>
    (done, fail) => {
      const begin = () =>
        scope.spawn(
          work(),
          (error) => {
            next();
            fail(error);
          },
          (value) => {
            next();
            done(value);
          },
        );
      if (isBusy) waiting.push(begin);
      else {
        isBusy = true;
        begin();
      }
    };
}
