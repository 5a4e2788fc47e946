export const harbours = [
  {
    slug: "saint-orrin",
    name: "Saint-Orrin",
    tides: [
      { at: "02:14", metres: 7.4 },
      { at: "08:51", metres: 1.2 },
      { at: "14:38", metres: 7.1 },
      { at: "21:05", metres: 1.6 },
    ],
  },
  {
    slug: "kelder-sound",
    name: "Kelder Sound",
    tides: [
      { at: "04:40", metres: 3.3 },
      { at: "11:02", metres: 0.6 },
      { at: "17:09", metres: 3.1 },
      { at: "23:26", metres: 0.8 },
    ],
  },
];
