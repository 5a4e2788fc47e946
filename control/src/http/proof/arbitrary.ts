import fc from "fast-check";

type Json = Record<string, unknown>;

/** Texts that break what was written for friendly ones. */
export const nastyText: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom(
    ...[
      "",
      " ",
      "\u0000",
      "a\u0000b",
      "\ud800",
      "\udfff\ud800",
      "\uFEFF",
      "\u202Eabc",
      "é",
      "e\u0301",
      "👩‍👩‍👧",
      "аpp",
    ],
    ...["null", "undefined", "NaN", "true", "0", "-1", "1e400", "9007199254740993", "__proto__", "constructor"],
    ...["../../etc/passwd", "..%2f..", "%00", "%", "\\", "//evil.test", "http://[::1]/", "localhost", "127.0.0.1/x:1"],
    ...[
      "' or 1=1 --",
      '"; drop table "user"; --',
      "$1",
      "{{7*7}}",
      "#{x}",
      "<script>",
      "\r\nSet-Cookie: a=b",
      "\u001b]0;x",
    ],
    ...["xn--a", "dev-x", "preview-x", "www", "-a", "a-", "A", "auto", "self", "svc_", "SVC_X", "1A", "A=B"],
  ),
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.string({ unit: "grapheme", maxLength: 40 }),
  fc.constantFrom(31, 73, 101, 256, 513, 5_000, 40_000).map((length) => "x".repeat(length)),
);

const nastyNumber: fc.Arbitrary<number> = fc.oneof(
  fc.constantFrom(
    0,
    -0,
    -1,
    1,
    0.5,
    2 ** 31,
    -(2 ** 31) - 1,
    2 ** 53,
    2 ** 53 + 2,
    1e21,
    1e308,
    -1e308,
    Number.MIN_VALUE,
  ),
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
);

const deep = (levels: number): unknown => {
  let value: unknown = 1;
  for (let level = 0; level < levels; level += 1) value = level % 2 === 0 ? [value] : { a: value };
  return value;
};

/** Any JSON value, none of it meant well. */
export const nastyJson: fc.Arbitrary<unknown> = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small", maxDepth: 4 },
    nastyText,
    nastyNumber,
    fc.constantFrom(null, true, false, deep(31), deep(40), []),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(nastyText, tie("value"), { maxKeys: 4, noNullPrototype: true }),
  ),
})).value;

/** Bytes that a client may send in place of JSON. */
export const rawBody: fc.Arbitrary<string | Uint8Array<ArrayBuffer>> = fc.oneof(
  fc.constantFrom(
    ...[
      "{",
      "}",
      "null",
      "[]",
      '""',
      "{} {}",
      '{"a":1,"a":2}',
      '{"n":1e400}',
      '{"a":NaN}',
      "\uFEFF{}",
      "// x\n{}",
      "{'a':1}",
    ],
    ...[
      '{"__proto__":{"isAdmin":true}}',
      '{"constructor":{"prototype":{"a":1}}}',
      '{"a":"\\ud800"}',
      '{"a":"\\u0000"}',
    ],
    ...["[".repeat(50_000), `${"[".repeat(50_000)}${"]".repeat(50_000)}`, `{"a":"${"x".repeat(1_100_000)}"}`],
    `{${Array.from({ length: 20_000 }, (_, index) => `"k${index}":1`).join(",")}}`,
  ),
  fc.uint8Array({ maxLength: 60 }).map((bytes) => Uint8Array.from(bytes)),
  fc.string({ unit: "binary", maxLength: 60 }),
);

/** A value that the JSON Schema accepts, as far as it says what it wants: refinements that it cannot hold may refuse it. */
export function fits(schema: Json): fc.Arbitrary<unknown> {
  const {
    type,
    const: only,
    enum: choices,
    anyOf,
    oneOf,
  } = schema as { enum?: unknown[]; anyOf?: Json[]; oneOf?: Json[] } & Json;
  if (only !== undefined) return fc.constant(only);
  if (choices !== undefined) return fc.constantFrom(...choices);
  const alternatives = anyOf ?? oneOf;
  if (alternatives !== undefined) return fc.oneof(...alternatives.map(fits));
  switch (type) {
    case "object":
      return fitsObject(schema);
    case "array":
      return fc.array(fits((schema["items"] ?? {}) as Json), {
        minLength: numberOr(schema["minItems"], 0),
        maxLength: Math.min(numberOr(schema["maxItems"], 3), 5),
      });
    case "string":
      return fitsText(schema);
    case "integer":
      return fc.integer({ min: clamp(schema["minimum"], -1000), max: clamp(schema["maximum"], 1000) });
    case "number":
      return fc.double({ min: numberOr(schema["minimum"], 0), max: numberOr(schema["maximum"], 1e6), noNaN: true });
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    default:
      return nastyJson;
  }
}

const numberOr = (value: unknown, other: number): number => (typeof value === "number" ? value : other);
const clamp = (value: unknown, other: number): number =>
  Math.max(-(2 ** 31), Math.min(2 ** 31 - 1, numberOr(value, other)));

function fitsObject({ properties = {}, required = [], additionalProperties }: Json): fc.Arbitrary<unknown> {
  const known = Object.entries(properties as Record<string, Json>);
  const record = fc.record(Object.fromEntries(known.map(([name, each]) => [name, fits(each)])), {
    requiredKeys: (required as string[]).filter((name) => known.some(([other]) => other === name)),
    noNullPrototype: true,
  });
  if (known.length > 0 || typeof additionalProperties !== "object") return record;
  const name = fc.stringMatching(/^[A-Z_][A-Z0-9_]{0,10}$/);
  return fc.dictionary(name, fits(additionalProperties as Json), { maxKeys: 4, noNullPrototype: true });
}

function fitsText({ format, pattern, minLength, maxLength }: Json): fc.Arbitrary<string> {
  if (format === "uuid") return fc.uuid();
  if (format === "date-time") return fc.date({ noInvalidDate: true }).map((date) => date.toISOString());
  if (format === "email") return fc.emailAddress();
  if (typeof pattern === "string") return fc.stringMatching(new RegExp(pattern));
  const min = numberOr(minLength, 0);
  return fc.string({ minLength: min, maxLength: Math.max(min, Math.min(numberOr(maxLength, 30), 30)) });
}

/** `value` with one thing about it wrong, at any depth. */
export function mutated(value: unknown): fc.Arbitrary<unknown> {
  if (Array.isArray(value)) {
    const inside = value.map((item, index) => mutated(item).map((changed) => value.toSpliced(index, 1, changed)));
    return fc.oneof(
      nastyJson,
      nastyJson.map((item) => [...value, item]),
      fc.constant([...value, ...value]),
      ...inside,
    );
  }
  if (typeof value !== "object" || value === null) return nastyJson;
  const entries = Object.entries(value);
  const without = entries.map(([name]) => fc.constant(Object.fromEntries(entries.filter(([other]) => other !== name))));
  const inside = entries.map(([name, item]) => mutated(item).map((changed) => ({ ...value, [name]: changed })));
  const more = fc.tuple(nastyText, nastyJson).map(([name, item]) => withKey(value, name, item));
  return fc.oneof(
    { arbitrary: nastyJson, weight: 1 },
    { arbitrary: more, weight: 1 },
    ...without.map((arbitrary) => ({ arbitrary, weight: 1 })),
    ...inside.map((arbitrary) => ({ arbitrary, weight: 3 })),
  );
}

/** Also when the name is `__proto__`, which an assignment would not add. */
const withKey = (value: object, name: string, item: unknown): object =>
  Object.defineProperty({ ...value }, name, { value: item, enumerable: true });

/** A query string: of the names that are known, of others, or of no form at all. */
export const queryString = (names: readonly string[]): fc.Arbitrary<string> =>
  fc.oneof(
    { arbitrary: fc.constant(""), weight: 2 },
    {
      arbitrary: fc
        .array(fc.tuple(fc.constantFrom(...names, "x", "channel[]", "__proto__", "constructor"), nastyText), {
          maxLength: 4,
        })
        .map((pairs) => pairs.map(([name, text]) => `${name}=${encode(text)}`).join("&")),
      weight: names.length === 0 ? 1 : 6,
    },
    { arbitrary: fc.constantFrom("&&&", "=", "%", "%zz=1", "?", "a=b=c", "%00=1", "a".repeat(3000)), weight: 1 },
  );

/** Percent-encoded, with U+FFFD for what has no encoding. */
export const encode = (text: string): string => encodeURIComponent(text.toWellFormed());
