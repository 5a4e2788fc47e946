// @pure

/** Cuts what a browser says into messages, each of which ends with a zero byte. */
export interface Messages {
  /** Those that are whole now; null: one is longer than any may be, and nothing after it makes sense. */
  push(chunk: Uint8Array): string[] | null;
}

export function createMessages(lengthMax: number): Messages {
  let parts: Uint8Array[] = [];
  let length = 0;
  return {
    push(chunk) {
      const whole: string[] = [];
      let rest = chunk;
      for (let at = rest.indexOf(0); at >= 0; at = rest.indexOf(0)) {
        const end = rest.subarray(0, at);
        if (length + end.byteLength > lengthMax) return null;
        whole.push(Buffer.concat([...parts, end]).toString("utf8"));
        parts = [];
        length = 0;
        rest = rest.subarray(at + 1);
      }
      length += rest.byteLength;
      if (length > lengthMax) return null;
      if (rest.byteLength > 0) parts.push(Uint8Array.from(rest));
      return whole;
    },
  };
}
