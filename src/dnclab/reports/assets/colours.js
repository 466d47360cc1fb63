/* Colour maps.

   A map is a straight path through OKLab, the space in which equal distances look equal: so equal
   differences of a value look equally large, and lightness alone tells the order, to any eye. Zero
   has the colour of the page, light or dark. Signed values leave it towards blue and orange, which
   colour-blind eyes tell apart too. */

/** [lightness, chroma, hue in degrees] of the colours at the ends of the maps, by theme. */
const TINTS = {
  light: {
    paper: [0.985, 0, 0],
    grey: [0.3, 0.01, 260],
    blue: [0.4, 0.12, 255],
    green: [0.4, 0.08, 165],
    purple: [0.38, 0.14, 315],
    orange: [0.52, 0.13, 50],
  },
  dark: {
    paper: [0.21, 0.008, 260],
    grey: [0.95, 0.01, 260],
    blue: [0.86, 0.08, 235],
    green: [0.88, 0.11, 165],
    purple: [0.84, 0.11, 315],
    orange: [0.84, 0.12, 70],
  },
};

function toLab([lightness, chroma, hue]) {
  const angle = (hue * Math.PI) / 180;
  return [lightness, chroma * Math.cos(angle), chroma * Math.sin(angle)];
}

/** OKLab to sRGB, 0 to 255. */
function toBytes([lightness, a, b]) {
  const long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const short = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
    -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
    -0.0041960863 * long - 0.7034186147 * medium + 1.707614701 * short,
  ];
  return linear.map((light) => {
    const shown = light <= 0.0031308 ? 12.92 * light : 1.055 * light ** (1 / 2.4) - 0.055;
    return Math.round(255 * Math.min(Math.max(shown, 0), 1));
  });
}

/** The colour of a value: 0 is the paper, 1 the map's `tint`, -1 its `below`. */
function colourOf(value, { tint, below = tint, exponent = 1 }, theme) {
  const paper = toLab(TINTS[theme].paper);
  const end = toLab(TINTS[theme][value < 0 ? below : tint]);
  const share = Math.min(Math.abs(value), 1) ** exponent;
  return toBytes(paper.map((part, axis) => part + (end[axis] - part) * share));
}

/** A CSS gradient that shows a map from its lowest value to its highest. */
function gradient(map, theme) {
  const lowest = map.below ? -1 : 0;
  const stops = Array.from({ length: 17 }, (_, place) => {
    const value = lowest + ((1 - lowest) * place) / 16;
    return `rgb(${colourOf(value, map, theme).join(" ")})`;
  });
  return `linear-gradient(to right, ${stops.join(", ")})`;
}
