export const lines = [
  { number: "N1", from: "Opera", to: "Sandgate" },
  { number: "N4", from: "Central", to: "Upper Mill" },
  { number: "N7", from: "Harbour", to: "Observatory" },
];
