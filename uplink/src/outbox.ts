/** Messages waiting for one stream to take them. */
export type Outbox<T> = AsyncIterable<T> & {
  /** Queues a message. False when the outbox is closed or full; a full one closes itself. */
  send(message: T): boolean;
  /** Ends the iteration after what is queued. */
  close(): void;
};

/**
 * A bounded queue with one reader. A reader that falls `limit` messages behind is treated as lost: the
 * outbox closes and calls `onOverflow`, since dropping single messages would leave a gap nobody sees.
 */
export function createOutbox<T>(limit: number, onOverflow: () => void): Outbox<T> {
  const queue: T[] = [];
  let closed = false;
  let wake: (() => void) | null = null;

  const wakeReader = (): void => {
    wake?.();
    wake = null;
  };

  return {
    send(message) {
      if (closed) return false;
      if (queue.length >= limit) {
        closed = true;
        wakeReader();
        onOverflow();
        return false;
      }
      queue.push(message);
      wakeReader();
      return true;
    },
    close() {
      closed = true;
      wakeReader();
    },
    async *[Symbol.asyncIterator]() {
      for (;;) {
        const message = queue.shift();
        if (message !== undefined) yield message;
        else if (closed) return;
        else {
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
      }
    },
  };
}
