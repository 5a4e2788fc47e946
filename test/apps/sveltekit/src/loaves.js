export const loaves = [
  { slug: "rye", name: "Seeded rye", hours: 22, note: "Sour, dense, better on the third day." },
  { slug: "spelt", name: "Spelt tin", hours: 9, note: "Mild and quick; the crust forgives everything." },
];
