package config

// nearest is the word that somebody who typed another one probably meant; empty if none is near: at most one typing error in three
// letters. It is for short words.
func nearest(typed string, words []string) string {
	best, distance := "", min(len(typed)/3, 3)+1
	if len(typed) > gotBytesMax {
		return ""
	}
	for _, w := range words {
		if d := distanceOf(typed, w); d < distance {
			best, distance = w, d
		}
	}
	return best
}

// distanceOf counts the letters to insert, remove, replace or swap with their neighbour to come from a to b (optimal string
// alignment).
func distanceOf(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
