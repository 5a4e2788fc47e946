/** A place that was taken, until it is disposed. */
export type TakePlace = (key: string) => Disposable | null;

/** So many at once in all and for each key; null when there is none. Nobody waits. */
export function createPlaces({ total, perKey }: { total: number; perKey: number }): TakePlace {
  const taken = new Map<string, number>();
  let inAll = 0;
  return (key) => {
    const ofKey = taken.get(key) ?? 0;
    if (inAll >= total || ofKey >= perKey) return null;
    taken.set(key, ofKey + 1);
    inAll += 1;
    let isGiven = false;
    return {
      [Symbol.dispose]() {
        if (isGiven) return;
        isGiven = true;
        inAll -= 1;
        const left = (taken.get(key) ?? 1) - 1;
        if (left === 0) taken.delete(key);
        else taken.set(key, left);
      },
    };
  };
}
