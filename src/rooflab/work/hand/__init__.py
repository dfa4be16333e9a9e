"""Operations written by hand, from shapes."""
