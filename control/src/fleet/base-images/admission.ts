export interface Admission {
  /**
   * A place, which disposing gives back; null when there is none, and then `id` is to ask again. `key` says on whose
   * behalf. Those who ask again come in the order in which they asked first, except past one whose key has no place.
   */
  admit(key: string, id: string, nowMs: number): Disposable | null;
}

/**
 * At most `total` at once, and at most `perKey` of one key. Nobody waits inside, and whoever has not asked again for
 * `patienceMs` (it was canceled, or asks elsewhere) loses its place in the order.
 */
export function createAdmission({
  total,
  perKey,
  patienceMs,
}: {
  total: number;
  perKey: number;
  patienceMs: number;
}): Admission {
  const taken: string[] = [];
  /** By id, in the order in which they came. */
  const waiting = new Map<string, { key: string; askedAt: number }>();

  const isNext = (id: string): boolean => {
    const places = [...taken];
    for (const [each, { key }] of waiting) {
      if (places.length >= total) return false;
      const hasPlace = places.filter((of) => of === key).length < perKey;
      if (each === id) return hasPlace;
      if (hasPlace) places.push(key);
    }
    return false;
  };

  return {
    admit(key, id, nowMs) {
      for (const [each, { askedAt }] of waiting) if (nowMs - askedAt > patienceMs) waiting.delete(each);
      waiting.set(id, { key, askedAt: nowMs });
      if (!isNext(id)) return null;
      waiting.delete(id);
      taken.push(key);
      let isInside = true;
      return {
        [Symbol.dispose]() {
          if (isInside) taken.splice(taken.indexOf(key), 1);
          isInside = false;
        },
      };
    },
  };
}
