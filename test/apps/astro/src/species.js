export const species = [
  {
    slug: "map-lichen",
    name: "Map lichen",
    colour: "#b5bd3a",
    text: "Grows less than a millimetre a year, so old walls can be dated by it.",
  },
  {
    slug: "oakmoss",
    name: "Oakmoss",
    colour: "#8fa68e",
    text: "Flat antlers on oak bark, and a base note in perfume.",
  },
  {
    slug: "sunburst",
    name: "Sunburst lichen",
    colour: "#e8a21c",
    text: "Orange where birds perch: it lives on what they leave.",
  },
];
