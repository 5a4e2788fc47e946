import { expect, test } from "vitest";
import { createAdmission } from "./admission.ts";

test("so many at once and no more, one account not all of it", () => {
  const admission = createAdmission({ total: 3, perKey: 2, patienceMs: 1_000 });
  const places = ["a1", "a2", "a3", "b1", "c1"].map((id) => admission.admit(id.slice(0, 1), id, 0));
  expect(places.map((place) => place !== null)).toEqual([true, true, false, true, false]);
  places[3]?.[Symbol.dispose]();
  // Given back twice is given back once.
  places[3]?.[Symbol.dispose]();
  expect(admission.admit("a", "a3", 1)).toBeNull();
  expect(admission.admit("d", "d1", 1)).toBeNull();
  expect(admission.admit("c", "c1", 1)).not.toBeNull();
  expect(admission.admit("d", "d1", 1)).toBeNull();
});

test("whoever asked first comes first, as long as it goes on asking", () => {
  const admission = createAdmission({ total: 1, perKey: 1, patienceMs: 1_000 });
  const first = admission.admit("a", "a1", 0);
  expect(admission.admit("b", "b1", 0)).toBeNull();
  expect(admission.admit("c", "c1", 900)).toBeNull();
  expect(admission.admit("b", "b1", 950)).toBeNull();
  first?.[Symbol.dispose]();
  expect(admission.admit("c", "c1", 1_500)).toBeNull();
  using second = admission.admit("b", "b1", 1_600);
  expect(second).not.toBeNull();
  second?.[Symbol.dispose]();
  expect(admission.admit("d", "d1", 1_700)).toBeNull();
  expect(admission.admit("d", "d1", 2_600)).not.toBeNull();
});
