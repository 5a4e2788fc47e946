/** Too much was asked for in a row; the asker is broken or hostile. */
export class SerialFull extends Error {
  override readonly name = "SerialFull";
}

/** Runs pieces of work one after another, in the order in which they were asked for. */
export type Serial = <T>(work: () => Promise<T>) => Promise<T>;

/** At most `limit` pieces wait; one more is refused with `SerialFull`. A failed piece does not stop the next. */
export function createSerial(limit: number): Serial {
  let last: Promise<unknown> = Promise.resolve();
  let waiting = 0;
  return (work) => {
    if (waiting >= limit) return Promise.reject(new SerialFull(`more than ${limit} operations wait`));
    waiting += 1;
    const next = last.then(work).finally(() => {
      waiting -= 1;
    });
    last = next.catch(() => undefined);
    return next;
  };
}

/** Lets at most `width` pieces of work run at once; the others wait their turn. */
export function createLimiter(width: number): Serial {
  let running = 0;
  const queue: (() => void)[] = [];
  return async (work) => {
    if (running >= width) await new Promise<void>((resolve) => queue.push(resolve));
    else running += 1;
    try {
      return await work();
    } finally {
      // The place goes straight to the next in line, so the count stays.
      const next = queue.shift();
      if (next) next();
      else running -= 1;
    }
  };
}
