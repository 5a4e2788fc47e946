import ms from "ms";

const cents: Record<string, number> = { quince: 340, medlar: 410, damson: 280 };

export const fruit: string[] = Object.keys(cents);

/** What a kilogram costs and how long it keeps; null for what is not sold. */
export function priceOf(name: string): string | null {
  const price = cents[name];
  return price === undefined
    ? null
    : `${(price / 100).toFixed(2)} a kilogram, keeps ${ms(14 * 86_400_000, { long: true })}`;
}
